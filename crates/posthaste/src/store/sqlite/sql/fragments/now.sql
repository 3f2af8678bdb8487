cast(unixepoch('subsec') * 1000000 as integer)
