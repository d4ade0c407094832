package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions that are spoken by hand: the last ones before flexible fields, whose answers have the plain header.
const (
	produceVersion     = 7
	fetchVersion       = 11
	listOffsetsVersion = 5
	metadataVersion    = 8
)

// talk is one connection whose requests are written and whose answers are read one after the other, by hand:
// a client library would cost more than the look-up that is measured, and would not say which batch went first.
type talk struct {
	conn      net.Conn
	in        *bufio.Reader
	out, body []byte
	formatter *kmsg.RequestFormatter
	sent      int32
	received  int32
}

func dial(ctx context.Context, broker string) (*talk, error) {
	return dialBuffered(ctx, broker, 256<<10)
}

// dialBuffered takes so many bytes for reading, where there are many connections.
func dialBuffered(ctx context.Context, broker string, size int) (*talk, error) {
	conn, err := connect(ctx, broker)
	if err != nil {
		return nil, err
	}
	if until, bounded := ctx.Deadline(); bounded {
		if err := conn.SetDeadline(until); err != nil {
			return nil, err
		}
	}
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("load"))
	return &talk{conn: conn, in: bufio.NewReaderSize(conn, size), formatter: formatter}, nil
}

func (t *talk) close() {
	if t != nil {
		t.conn.Close()
	}
}

func (t *talk) send(request kmsg.Request) error {
	t.out = t.formatter.AppendRequest(t.out[:0], request, t.sent)
	t.sent++
	_, err := t.conn.Write(t.out)
	return err
}

// receive reads the next answer. What it holds of records is valid until the next call.
func (t *talk) receive(answer kmsg.Response) error {
	var head [8]byte
	if _, err := io.ReadFull(t.in, head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[:])) - 4
	if number := int32(binary.BigEndian.Uint32(head[4:])); number != t.received || size < 0 {
		return fmt.Errorf("answer %d of %d bytes instead of answer %d", number, size, t.received)
	}
	t.received++
	if cap(t.body) < size {
		t.body = make([]byte, size)
	}
	t.body = t.body[:size]
	if _, err := io.ReadFull(t.in, t.body); err != nil {
		return err
	}
	return answer.ReadFrom(t.body)
}

func (t *talk) call(request kmsg.Request, answer kmsg.Response) error {
	if err := t.send(request); err != nil {
		return err
	}
	return t.receive(answer)
}

// produceTo is a request for partitions of one topic; batches[i] goes to partition i.
func produceTo(topic string, batches ...[]byte) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(produceVersion)
	request.Acks = 1
	request.TimeoutMillis = 30_000
	to := kmsg.NewProduceRequestTopic()
	to.Topic = topic
	for i, batch := range batches {
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Partition = int32(i)
		partition.Records = batch
		to.Partitions = append(to.Partitions, partition)
	}
	request.Topics = append(request.Topics, to)
	return request
}

// produceToOne is a request for one partition.
func produceToOne(topic string, partition int, batch []byte) *kmsg.ProduceRequest {
	request := produceTo(topic, batch)
	request.Topics[0].Partitions[0].Partition = int32(partition)
	return request
}

func produceAnswer() *kmsg.ProduceResponse {
	answer := kmsg.NewPtrProduceResponse()
	answer.SetVersion(produceVersion)
	return answer
}

// fetchFrom requests the one batch that holds an offset.
func fetchFrom(topic string, offset int64) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(fetchVersion)
	request.MaxWaitMillis = 100
	request.MinBytes = 1
	request.MaxBytes = 1
	request.SessionEpoch = -1
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset = offset
	partition.PartitionMaxBytes = 1
	from := kmsg.NewFetchRequestTopic()
	from.Topic = topic
	from.Partitions = append(from.Partitions, partition)
	request.Topics = append(request.Topics, from)
	return request
}

func fetchAnswer() *kmsg.FetchResponse {
	answer := kmsg.NewPtrFetchResponse()
	answer.SetVersion(fetchVersion)
	return answer
}

// offsetsOf requests, of each partition of a topic, the first offset at or after a time, -1 for its end.
func offsetsOf(topic string, partitions int, millis int64) *kmsg.ListOffsetsRequest {
	request := kmsg.NewPtrListOffsetsRequest()
	request.SetVersion(listOffsetsVersion)
	of := kmsg.NewListOffsetsRequestTopic()
	of.Topic = topic
	for i := range partitions {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition = int32(i)
		partition.Timestamp = millis
		of.Partitions = append(of.Partitions, partition)
	}
	request.Topics = append(request.Topics, of)
	return request
}

func offsetsAnswer() *kmsg.ListOffsetsResponse {
	answer := kmsg.NewPtrListOffsetsResponse()
	answer.SetVersion(listOffsetsVersion)
	return answer
}

func metadataOf(topic string) *kmsg.MetadataRequest {
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(metadataVersion)
	request.AllowAutoTopicCreation = false
	of := kmsg.NewMetadataRequestTopic()
	of.Topic = kmsg.StringPtr(topic)
	request.Topics = append(request.Topics, of)
	return request
}

func metadataAnswer() *kmsg.MetadataResponse {
	answer := kmsg.NewPtrMetadataResponse()
	answer.SetVersion(metadataVersion)
	return answer
}
