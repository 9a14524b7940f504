//! What the commands run: real chains and generated loads.

pub mod cardano;
pub mod utxo;
pub mod vectors;
