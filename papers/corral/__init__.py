"""Results of Corral: tuples that are reserved, and jobs that are planned on racks."""
