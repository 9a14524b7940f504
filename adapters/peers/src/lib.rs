//! Nothing is here: the tests of the adapters, run on the peers themselves.
