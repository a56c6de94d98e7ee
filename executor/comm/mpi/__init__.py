"""The processes of one `mpirun`."""
