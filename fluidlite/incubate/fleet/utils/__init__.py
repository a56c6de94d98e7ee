"""`fluid.incubate.fleet.utils`: what surrounds a fleet's jobs: programs as files, HDFS."""
