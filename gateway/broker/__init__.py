"""The broker's decisions about topics that hold data. Pure: no clock, no files, no sockets."""
