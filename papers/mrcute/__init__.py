"""Results of MRCute: completion times of MapReduce jobs predicted from one run on one machine."""
