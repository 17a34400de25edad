"""Block devices and files by fio and dd."""
