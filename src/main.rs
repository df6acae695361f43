//! The program: reads the command line and tells the shell how it went.

fn main() {}
