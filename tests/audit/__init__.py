"""The audit against real control planes: broken ones, of which every fault has to be found, and a healthy one."""
