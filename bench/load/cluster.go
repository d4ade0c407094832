package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	settledEvery    = 50 * time.Millisecond
	gapEvery        = time.Millisecond // between two writes of gap: the brokers must not be busy with them
	lookEvery       = 5 * time.Millisecond
	gapWarmRequests = 200
	crewBufferBytes = 64 << 10
)

// crew is the brokers of a cluster, each with a connection that is made when it is needed and dropped when it breaks.
type crew struct {
	ctx   context.Context
	lines map[string]*talk
}

func newCrew(ctx context.Context) *crew { return &crew{ctx: ctx, lines: map[string]*talk{}} }

func (c *crew) close() {
	for _, line := range c.lines {
		line.close()
	}
}

// line is the connection to the broker at an address.
func (c *crew) line(address string) (*talk, error) {
	if line, known := c.lines[address]; known {
		return line, nil
	}
	line, err := dialBuffered(c.ctx, address, crewBufferBytes)
	if err == nil {
		c.lines[address] = line
	}
	return line, err
}

// begin sends a request to the broker at an address; the caller receives the response of c.lines[address].
func (c *crew) begin(address string, request kmsg.Request) error {
	line, err := c.line(address)
	if err != nil {
		return err
	}
	return line.send(request)
}

// send sends a request to the broker at an address and waits for the response; what breaks is dialled again the next time.
func (c *crew) send(address string, request kmsg.Request, answer kmsg.Response) error {
	line, err := c.line(address)
	if err != nil {
		return err
	}
	err = line.call(request, answer)
	if err != nil {
		line.close()
		delete(c.lines, address)
	}
	return err
}

// settled waits until every one of the brokers says of all partitions of all topics what is wanted: `led` by one of
// them, in sync on all replicas (`full`), led by the first replica as well (`preferred`); and until each of the
// partitions has then acknowledged a record on all in-sync replicas.
func settled(ctx context.Context, j job) (result, error) {
	began := time.Now()
	brokers := strings.Split(j.broker, ",")
	all := newCrew(ctx)
	defer all.close()
	var seen *kmsg.MetadataResponse
	for _, broker := range brokers {
		for {
			seen = metadataAnswer()
			if all.send(broker, metadataOfAll(j), seen) == nil && isSettled(seen, len(brokers), j) {
				break
			}
			if err := pause(ctx, settledEvery); err != nil {
				return result{}, fmt.Errorf("%s: %w: %s", broker, err, summaryOf(seen))
			}
		}
	}
	if err := acknowledged(all, seen, j); err != nil {
		return result{}, err
	}
	return summary(j.topics*j.partitions, time.Since(began)), nil
}

func metadataOfAll(j job) *kmsg.MetadataRequest {
	request := metadataOf(numbered(j, 0))
	for i := 1; i < j.topics; i++ {
		request.Topics = append(request.Topics, metadataOf(numbered(j, i)).Topics[0])
	}
	return request
}

func isSettled(seen *kmsg.MetadataResponse, brokers int, j job) bool {
	if len(seen.Brokers) != brokers || len(seen.Topics) != j.topics {
		return false
	}
	alive := addresses(seen)
	for _, topic := range seen.Topics {
		if topic.ErrorCode != 0 || len(topic.Partitions) != j.partitions {
			return false
		}
		for _, one := range topic.Partitions {
			_, led := alive[one.Leader]
			full := len(one.ISR) == len(one.Replicas)
			if !led || j.want != "led" && !full || j.want == "preferred" && one.Leader != one.Replicas[0] {
				return false
			}
		}
	}
	return true
}

// summaryOf says what kept a cluster from being settled.
func summaryOf(seen *kmsg.MetadataResponse) string {
	led, full, preferred := 0, 0, 0
	for _, topic := range seen.Topics {
		for _, one := range topic.Partitions {
			if one.Leader >= 0 {
				led++
			}
			if len(one.ISR) == len(one.Replicas) {
				full++
			}
			if len(one.Replicas) > 0 && one.Leader == one.Replicas[0] {
				preferred++
			}
		}
	}
	return fmt.Sprintf("%d brokers, %d led, %d full, %d preferred", len(seen.Brokers), led, full, preferred)
}

func addresses(seen *kmsg.MetadataResponse) map[int32]string {
	found := map[int32]string{}
	for _, broker := range seen.Brokers {
		found[broker.NodeID] = fmt.Sprintf("%s:%d", broker.Host, broker.Port)
	}
	return found
}

// acknowledged appends a record to every partition, a topic in a request, until all of them have taken one.
func acknowledged(all *crew, seen *kmsg.MetadataResponse, j job) error {
	batch, err := oneRecord(j)
	if err != nil {
		return err
	}
	at := addresses(seen)
	for _, topic := range seen.Topics {
		left := topic.Partitions
		for len(left) > 0 {
			again := left[:0:0]
			for leader, some := range byLeader(left) {
				answer := produceAnswer()
				request := produceTo(*topic.Topic)
				request.Acks = -1
				for _, one := range some {
					partition := kmsg.NewProduceRequestTopicPartition()
					partition.Partition, partition.Records = one.Partition, batch
					request.Topics[0].Partitions = append(request.Topics[0].Partitions, partition)
				}
				if all.send(at[leader], request, answer) != nil {
					again = append(again, some...)
					continue
				}
				again = append(again, refused(some, answer)...)
			}
			left = again
			if len(left) > 0 {
				if err := pause(all.ctx, lookEvery); err != nil {
					return fmt.Errorf("%s: %d partitions acknowledge nothing: %w", *topic.Topic, len(left), err)
				}
			}
		}
	}
	return nil
}

func byLeader(partitions []kmsg.MetadataResponseTopicPartition) map[int32][]kmsg.MetadataResponseTopicPartition {
	found := map[int32][]kmsg.MetadataResponseTopicPartition{}
	for _, one := range partitions {
		found[one.Leader] = append(found[one.Leader], one)
	}
	return found
}

func refused(asked []kmsg.MetadataResponseTopicPartition, answer *kmsg.ProduceResponse) []kmsg.MetadataResponseTopicPartition {
	codes := map[int32]int16{}
	for _, row := range answer.Topics[0].Partitions {
		codes[row.Partition] = row.ErrorCode
	}
	var found []kmsg.MetadataResponseTopicPartition
	for _, one := range asked {
		if codes[one.Partition] != 0 {
			found = append(found, one)
		}
	}
	return found
}

func oneRecord(j job) ([]byte, error) {
	made, err := newContent(j)
	if err != nil {
		return nil, err
	}
	made.firstMillis = time.Now().UnixMilli()
	return made.appendBatch(nil, 0, 1), nil
}

func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// elect requests the election of the first replica of every partition.
func elect(ctx context.Context, j job) (result, error) {
	all := newCrew(ctx)
	defer all.close()
	began := time.Now()
	for {
		err := electOnce(all, j)
		if err == nil {
			return summary(j.topics*j.partitions, time.Since(began)), nil
		}
		if stopped := pause(ctx, settledEvery); stopped != nil {
			return result{}, err
		}
	}
}

func electOnce(all *crew, j job) error {
	seen := metadataAnswer()
	if err := all.send(strings.Split(j.broker, ",")[0], metadataOf(numbered(j, 0)), seen); err != nil {
		return err
	}
	request := kmsg.NewPtrElectLeadersRequest()
	request.SetVersion(1) // The last one with the plain header.
	request.TimeoutMillis = 60_000
	for i := range j.topics {
		topic := kmsg.NewElectLeadersRequestTopic()
		topic.Topic = numbered(j, i)
		for partition := range j.partitions {
			topic.Partitions = append(topic.Partitions, int32(partition))
		}
		request.Topics = append(request.Topics, topic)
	}
	answer := kmsg.NewPtrElectLeadersResponse()
	answer.SetVersion(1)
	if err := all.send(addresses(seen)[seen.ControllerID], request, answer); err != nil {
		return err
	}
	if answer.ErrorCode != 0 {
		return fmt.Errorf("the election was refused with %d", answer.ErrorCode)
	}
	return nil
}

// gap writes one record after the other to the first partition of a topic, each acknowledged by all in-sync replicas,
// to its present leader. It says "ready" when that goes well, and prints the longest time between two
// acknowledgements from "go" until its input ends.
func gap(ctx context.Context, j job) (result, error) {
	writer := gapWriter{crew: newCrew(ctx), brokers: strings.Split(j.broker, ","), topic: j.topic}
	defer writer.crew.close()
	batch, err := oneRecord(j)
	if err != nil {
		return result{}, err
	}
	for range gapWarmRequests {
		if err := writer.write(batch); err != nil {
			return result{}, err
		}
	}
	fmt.Println("ready")
	input := bufio.NewReader(os.Stdin)
	if _, err := input.ReadString('\n'); err != nil {
		return result{}, fmt.Errorf("no line to continue on standard input: %w", err)
	}
	enough := make(chan struct{})
	go func() {
		_, _ = input.ReadString('\n')
		close(enough)
	}()
	return writer.longest(batch, enough)
}

type gapWriter struct {
	crew    *crew
	brokers []string
	topic   string
	leader  string
}

func (w *gapWriter) longest(batch []byte, enough <-chan struct{}) (result, error) {
	began := time.Now()
	last, longest, written := began, time.Duration(0), 0
	for !isClosed(enough) {
		if err := w.write(batch); err != nil {
			return result{}, err
		}
		now := time.Now()
		longest = max(longest, now.Sub(last))
		last = now
		written++
		time.Sleep(gapEvery)
	}
	measured := summary(written, time.Since(began))
	measured.GapMicros = float64(longest.Microseconds())
	return measured, nil
}

// write repeats one record until it is acknowledged.
func (w *gapWriter) write(batch []byte) error {
	for {
		if w.leader != "" {
			request, answer := produceTo(w.topic, batch), produceAnswer()
			request.Acks = -1
			if w.crew.send(w.leader, request, answer) == nil && answer.Topics[0].Partitions[0].ErrorCode == 0 {
				return nil
			}
		}
		w.leader = w.find()
		if err := pause(w.crew.ctx, lookEvery); err != nil {
			return fmt.Errorf("no broker accepts records of %s: %w", w.topic, err)
		}
	}
}

// find returns the present leader, of the first broker that knows another than the last one.
func (w *gapWriter) find() string {
	found := ""
	for _, broker := range w.brokers {
		seen := metadataAnswer()
		if w.crew.send(broker, metadataOf(w.topic), seen) != nil || len(seen.Topics[0].Partitions) == 0 {
			continue
		}
		leader := addresses(seen)[seen.Topics[0].Partitions[0].Leader]
		if leader != "" {
			found = leader
		}
		if leader != "" && leader != w.leader {
			break
		}
	}
	return found
}
