//! The codec.
