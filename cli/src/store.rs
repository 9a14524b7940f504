//! Stores as commands open them: by folder, with the conventions and the advice that all commands share.

pub mod context;
pub mod folder;
pub mod noted;
pub mod tables;
