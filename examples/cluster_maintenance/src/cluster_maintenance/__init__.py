"""Every node compacts its own store, the leader publishes the manifest: a program built on oncue."""
