// Package firehosepb is generated from firehose.proto, the wire specification of what
// sequencers, owners of shards and filters say to each other; read that instead.
package firehosepb
