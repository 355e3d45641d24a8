"""Truth of the crowded world: rules that hold under every scheduler. No module here knows a scheduler."""
