"""MariaDB and MySQL: engines, ports, servers and the Galera cluster."""
