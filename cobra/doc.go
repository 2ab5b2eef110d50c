// Package cobra matches articles with keyword subscriptions, and keeps a feed
// of each (Rose et al., NSDI'07).
package cobra
