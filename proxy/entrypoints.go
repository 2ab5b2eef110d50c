package proxy

import "time"

// EntryPoints says what a node has found out about its entry points: the nodes through which it could join its network
// without having heard of them there. These are the nodes at --bootstrap, those found in the local network, and members
// that it remembers from earlier runs. Fields from Apart on are set when two checks in a row have found the same.
type EntryPoints struct {
	Known        int        `json:"known"`
	Answering    int        `json:"answering"`     // of those asked in the last check
	CheckedAt    *time.Time `json:"checked_at"`    // null: not yet
	Doubtful     bool       `json:"doubtful"`      // the network may be a false one, for one of the following reasons
	Apart        int        `json:"apart"`         // entry points that do not find the members that others find
	Bootstrap    bool       `json:"bootstrap"`     // one of these is at --bootstrap
	NetworkApart bool       `json:"network_apart"` // members of the network do not find the members that entry points find
	Forgotten    bool       `json:"forgotten"`     // no remembered member is in the network
	NoPlace      bool       `json:"no_place"`      // members answer, but none leads to the node's place
	Claimed      int        `json:"claimed"`       // members that the network claims to have, if it has far fewer; else 0
	Likely       int        `json:"likely"`        // members that it then has, judging by those that answer
}
