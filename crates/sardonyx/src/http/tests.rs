//! The API as clients meet it.
