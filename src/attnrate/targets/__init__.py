"""What is to be approximated: Eq. 8 targets, graph targets, linear functionals, their alterations."""
