"""Support for tests of the project itself: source trees, commands, compilers."""
