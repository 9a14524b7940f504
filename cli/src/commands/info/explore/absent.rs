//! A program that was built without the explorer, as the small one of a release.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use varvite::{Error, Result};

use super::How;

/// What there is none of.
pub struct Pages(Infallible);

impl Pages {
    /// `Invalid`: it says which program has the pages.
    pub fn at(_: &str) -> Result<Pages> {
        Err(Error::invalid(
            "this program was built without the explorer, as varvite-small of a release is: take the release's varvite, or build \
             varvite-cli with its default features",
        ))
    }

    pub fn bind(self, _: &Path, _: &[PathBuf], _: &How) -> Result<Pages> {
        match self.0 {}
    }

    pub fn url(&self) -> String {
        match self.0 {}
    }

    pub fn serve(self) -> Result<()> {
        match self.0 {}
    }
}
