"""Rules of replica choice compared: rivals of the runtime's rule, and a simulated world."""
