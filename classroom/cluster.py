"""joblib's Dask backend, with two things mended for work that must neither be lost nor run here.

With one worker in all, joblib would take the work for sequential and do it in its own process. And a task that Dask
gives up, because each worker that had it died, would be waited for without end.
"""
from __future__ import annotations

from collections.abc import Callable

from joblib._dask import DaskDistributedBackend


class Cluster(DaskDistributedBackend):
    def effective_n_jobs(self, n_jobs: int) -> int:
        return max(2, super().effective_n_jobs(n_jobs))

    def submit(self, func: Callable, callback: Callable | None = None):
        future = super().submit(func, callback)
        future.add_done_callback(lambda done: done.exception() and callback(done.exception()))
        return future

    def retrieve_result_callback(self, out: object) -> object:
        if isinstance(out, BaseException):
            raise out
        return super().retrieve_result_callback(out)
