"""SumVar beside other ways to share a budget among stages: Figure 5.3, sections 5.3.1 and 5.4.2."""
