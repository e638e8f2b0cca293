"""Parts of ``python -m gpu_runtime.device_check``: laws, tapes, lengths, times, speed."""
