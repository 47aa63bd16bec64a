"""Derivatives: reverse mode, Jacobians and Hessians."""
