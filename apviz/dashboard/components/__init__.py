"""What the pages are made of: charts, tables, bars and cards."""
