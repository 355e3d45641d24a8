"""Completion of rows: models of rows, their choice by held-out error, and calibrated deviations."""
