// Package publisher keeps what a publisher needs to sign: its key, and how far it has counted.
//
// A key is a file that its owner alone may read, in clear, or encrypted with a passphrase by
// age:
//
//	blog.key         the key that signs, and the name (hash) of the one that may follow it
//	blog.key.next    the key that follows: to be kept elsewhere
//	blog.key.record  what was signed last for each feed, with its envelopes
//
// Numbers are given once. So an envelope is in the record, durably, before anybody sees it; if it
// got lost on its way it is sent again as it is. Only the first one of a feed is taken out again,
// when it is refused: the address is wrong, or does not name the key yet. What the network has
// beyond the record tells of an old backup, or of somebody else who has the key: then nothing is
// signed until its owner says what it is (Resume).
//
// The package leaves to feedtree how publications travel, to internal/feed what an item is, and
// to cmd/tidings whom to ask for a passphrase.
package publisher
