// Package publisher keeps what a publisher needs to sign items: a key, and a record of what the key has
// signed.
//
// A key is stored in a file that only its owner may read, either in clear or encrypted with a passphrase by
// age:
//
//	blog.key         the key that signs, and the hash of the next key
//	blog.key.next    the next key, to be kept in another place
//	blog.key.record  the last items that were signed for each feed, with their envelopes
//
// No number is used for two items. An envelope is therefore durable in the record before anybody sees it, and
// is sent again unchanged if it gets lost. Only the first item of a feed is removed from the record when it
// is refused, because the address is wrong or its document does not name the key yet. If the network has more
// items than the record, the record comes from an old backup, or somebody else has the key. Nothing is signed
// then until the owner of the key decides (Resume).
//
// The package leaves the transport of publications to feedtree, the format of items to internal/feed, and the
// prompt for a passphrase to cmd/tidings.
package publisher
