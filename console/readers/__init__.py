"""What pages read of the cluster beyond `admin/`: much at once, in few requests, without what is not known."""
