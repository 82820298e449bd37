//! What every input and every output must do, for whoever writes one: hand yours to these functions
//! in a test.
