"""MariaDB and MySQL: engines, ports, servers and the Galera cluster."""

ENGINES = ("mariadb", "mysql")
"""The engines that the module `engines` declares."""
