"""The build of the documentation site: generated pages, links, and checks."""
