// Package publisher keeps what a publisher needs to sign items: a key, and a record of what the key has
// signed.
//
// A key is stored in a file that only its owner may read, either in clear or encrypted with a passphrase by
// age:
//
//	blog.key             the key that signs, and the hash of the next key
//	blog.key.next        the next key, to be kept in another place
//	blog.key.record      the last items that were signed for each feed, with their envelopes
//	blog.key.record.log  what was signed since that file was written
//
// No number is used for two items. An envelope is therefore durable in the record before anybody sees it, and
// is sent again unchanged if it gets lost. Only the first item of a feed is removed from the record when it
// is refused, because the address is wrong or its document does not name the key yet. If the network has more
// items than the record, the record comes from an old backup, or somebody else has the key. Nothing is signed
// then until the owner of the key decides (Resume).
//
// Items that are signed together add one line to the log, which is synced before anybody sees an envelope of it: one sync,
// whatever the number of feeds and items before. When the log has outgrown the record, or a feed is removed, the record is
// written anew and the log is emptied.
//
//   - Behind its last line the log has zeros, into which further lines are written. It has none after it was emptied, and on a
//     full disk.
//   - A crash while a line is written leaves a last line that is not complete. It is ignored, and the next line takes its place.
//     A damaged line with another one behind it was synced, and the record is refused.
//   - The record names its log, and each line names the log that it is part of. Lines that are left because of a crash after the
//     record was written are those of its former log, and are ignored.
//   - Processes use the record one at a time, by a lock. Each reads the record if its file is another one than before, and
//     otherwise only the lines that were added to the log.
//   - A version of the program that does not know of the log would sign the numbers in it again. The first line is therefore
//     written only after a record that such a version cannot decode: it says that the record is damaged, and signs nothing. A
//     record of such a version, which has no log, is read.
//
// The package leaves the transport of publications to feedtree, the format of items to internal/feed, and the
// prompt for a passphrase to cmd/tidings.
package publisher
