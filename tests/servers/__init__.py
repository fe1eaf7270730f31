"""Real servers on loopback for tests; each is stopped by the handle that started it."""
