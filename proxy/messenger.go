package proxy

import "time"

// A Messenger says how the node talks with people by XMPP.
type Messenger struct {
	Account   string             `json:"account"`
	Connected bool               `json:"connected"`
	Since     *time.Time         `json:"since"` // when it was connected or disconnected
	Error     string             `json:"error"` // why it is not connected
	Contacts  []MessengerContact `json:"contacts"`
}

// A MessengerContact is a person who is told what is new.
type MessengerContact struct {
	Account   string     `json:"account"`
	Available bool       `json:"available"` // news is delivered at once; otherwise it waits
	Paused    bool       `json:"paused"`
	Feeds     []string   `json:"feeds"`
	Queries   []string   `json:"queries"`
	LastSent  *time.Time `json:"last_sent"`
	Error     string     `json:"error"`  // of the last attempt to deliver
	Missed    bool       `json:"missed"` // some news was not kept long enough
}
