package proxy

import "tidings/internal/locale"

// idKinds says, for each kind of ids, what the ids of members are made of, and what that protects from.
var idKinds = map[string]locale.Text{
	"key":         locale.Say("made of keys, which cost nothing: enough among friends, but a stranger could have most of the nodes that keep a feed"),
	"address":     locale.Say("made of addresses: nobody has many without many blocks of addresses, and the nodes that keep a feed are of different providers"),
	"certificate": locale.Say("given by certificates: only nodes that an authority of the network has admitted keep and poll feeds"),
}

// IDsText says what the ids of a network's members are made of. kind is the network's setting "ids".
func IDsText(kind string) locale.Text { return idKinds[kind] }
