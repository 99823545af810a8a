"""What the stage forecast knows of series: their times, their gaps, methods that forecast them, and the tables of what was found."""
