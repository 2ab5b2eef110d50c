// Package websub subscribes to topics at hubs, as a subscriber of W3C WebSub: it finds out which hub a document names, asks
// the hub, confirms what it has asked for, renews leases, and checks who has sent a notification.
//
//	Want         asks the hub, by a form                            subscriber.go
//	Confirm      answers the hub's question whether that is meant   callback.go
//	Run          renews at four fifths of the lease; repeats requests that the hub has not confirmed
//	Notify       takes a notification                               callback.go
//	Drop         asks the hub to end the subscription
//
// The address that a hub calls holds 128 random bits and belongs to one subscription. Only a notification with a signature
// that proves the secret of the subscription counts as the hub's. A subscription is in the store before its hub is asked,
// so that a hub's question after a restart is answered, and so that leases outlive restarts.
//
// A Subscriber belongs to one goroutine.
package websub
