"""Threads, processes, forks and time: locks, the thread pool, retries and caches.

Nothing outside this package starts a thread, takes a lock of the operating system or registers a
fork hook. `key_locks` are between threads, `file_locks` between processes on one file system;
`omnizarr.stores.leases` are between processes that share a store which can compare and set.
"""
