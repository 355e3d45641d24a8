"""Support for tests of faults around a process: bad paths of the network, and a clock that jumps."""
