// Package wire is the ground that the messages of all layers stand on.
//
//	Frame       one message of one layer           AppendFrame, ParseFrame
//	stream      frames, each behind its length     AppendDelimited, ReadDelimited
//	Envelope    a payload and who signed it        Signer, Verifier
//	Hello       the handshake that opens a stream  Answer, CheckReply
//	Network     the parameters all nodes share     Network, Hash
//
// The wire specification of this package is wirepb/wire.proto; each layer has
// one beside it. Messages are protobuf. What is signed travels as the exact
// bytes that were signed, and nothing is ever re-encoded to verify it.
//
// The package leaves to the layers what their messages mean, and to the edge
// how the bytes move.
package wire

//go:generate protoc --proto_path=wirepb --go_out=wirepb --go_opt=paths=source_relative wirepb/wire.proto
