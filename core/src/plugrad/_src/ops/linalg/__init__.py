"""Matrices: products, systems of equations and decompositions.

- ``_results``: the named tuples that the functions return.
- ``determinants``: determinants.
- ``eigenvalues``: eigenvalues of general matrices.
- ``einsum``: Einstein summation.
- ``linalg``: the namespace ``plugrad.linalg``; powers, norms and condition numbers.
- ``matrix``: diagonal and band matrices, inverses, and systems of equations.
- ``matrix_factors``: Cholesky, QR, singular values, and Hermitian eigenvalues.
- ``matrix_functions``: LU, the exponential, and chains of products.
- ``products``: products of vectors and matrices, and their diagonals.
"""
