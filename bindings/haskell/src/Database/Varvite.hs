module Database.Varvite (module Database.Varvite.Internal.Table) where
import Database.Varvite.Internal.Table
