"""Job -> Plan: what will run, in which order, and what every table will look like."""
