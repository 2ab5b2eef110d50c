package proxy

// idKinds says, for each kind of ids, what the ids of members are made of, and what that protects from.
var idKinds = map[string]string{
	"key":         "made of keys, which cost nothing: enough among friends, but a stranger could have most of the nodes that keep a feed",
	"address":     "made of addresses: nobody has many without many blocks of addresses, and the nodes that keep a feed are of different providers",
	"certificate": "given by certificates: only nodes that an authority of the network has admitted keep and poll feeds",
}

// IDsText says what the ids of a network's members are made of. kind is the network's setting "ids".
func IDsText(kind string) string { return idKinds[kind] }
