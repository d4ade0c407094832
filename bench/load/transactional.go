package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The versions of a transactional producer's requests that are spoken by hand: before flexible fields, and those of
// clients that do not know KIP-890 part 2.
const (
	initProducerVersion  = 1
	addPartitionsVersion = 2
	endTxnVersion        = 2

	coordinatorOfTransactions = 1
	transactionMillis         = 60_000
	transactionalBit          = 0x10

	attributesAt = 21
	producerAt   = 43
	epochAt      = 51
	sequenceAt   = 53
)

// transactional is one transactional producer: one connection to each broker, one request of its own at a time.
type transactional struct {
	crew        *crew
	job         job
	id          string
	number      int
	coordinator string
	leaders     []string // by partition
	producer    int64
	epoch       int16
	sequences   []int32
	batches     map[int][]byte // by how many records they have
	refused     int            // requests that were answered CONCURRENT_TRANSACTIONS
}

// newTransactional gets a producer id for the transactional id of that number, and finds all leaders.
func newTransactional(ctx context.Context, j job, number int) (*transactional, error) {
	made, err := newContent(j)
	if err != nil {
		return nil, err
	}
	made.firstMillis = time.Now().UnixMilli()
	t := &transactional{
		crew:      newCrew(ctx),
		job:       j,
		id:        fmt.Sprintf("%s-%d", j.group, number),
		number:    number,
		leaders:   make([]string, j.partitions),
		sequences: make([]int32, j.partitions),
		batches:   map[int][]byte{},
	}
	for index := range j.partitions {
		if count := t.recordsOf(index); count > 0 && t.batches[count] == nil {
			t.batches[count] = made.appendBatch(nil, 0, count)
		}
	}
	if err = again(ctx, t.find); err == nil {
		err = again(ctx, t.init)
	}
	if err != nil {
		t.crew.close()
		return nil, fmt.Errorf("transactional id %s: %w", t.id, err)
	}
	return t, nil
}

// recordsOf is how many records of a transaction its partition of that index gets: they are spread evenly.
func (t *transactional) recordsOf(index int) int {
	return (t.job.each + t.job.partitions - 1 - index) / t.job.partitions
}

func isNotYet(code int16) bool {
	return slices.Contains([]int16{
		kerr.CoordinatorNotAvailable.Code, kerr.CoordinatorLoadInProgress.Code, kerr.NotCoordinator.Code,
		kerr.ConcurrentTransactions.Code, kerr.LeaderNotAvailable.Code,
	}, code)
}

// find finds the coordinator and the leaders; false where there is one missing.
func (t *transactional) find() (bool, error) {
	first := strings.Split(t.job.broker, ",")[0]
	request, answer := kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrFindCoordinatorResponse()
	request.SetVersion(findCoordinatorVersion)
	answer.SetVersion(findCoordinatorVersion)
	request.CoordinatorKey, request.CoordinatorType = t.id, coordinatorOfTransactions
	if err := t.crew.send(first, request, answer); err != nil || isNotYet(answer.ErrorCode) {
		return false, err
	}
	if answer.ErrorCode != 0 {
		return false, kerr.ErrorForCode(answer.ErrorCode)
	}
	t.coordinator = fmt.Sprintf("%s:%d", answer.Host, answer.Port)
	seen := metadataAnswer()
	if err := t.crew.send(first, metadataOf(t.job.topic), seen); err != nil {
		return false, err
	}
	at := addresses(seen)
	for _, one := range seen.Topics[0].Partitions {
		if int(one.Partition) < len(t.leaders) {
			t.leaders[one.Partition] = at[one.Leader]
		}
	}
	return !slices.Contains(t.leaders, ""), nil
}

// init gets the producer id and a new epoch; false where it is to be tried again.
func (t *transactional) init() (bool, error) {
	request, answer := kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrInitProducerIDResponse()
	request.SetVersion(initProducerVersion)
	answer.SetVersion(initProducerVersion)
	request.TransactionalID, request.TransactionTimeoutMillis = kmsg.StringPtr(t.id), transactionMillis
	if err := t.crew.send(t.coordinator, request, answer); err != nil || isNotYet(answer.ErrorCode) {
		return false, err
	}
	t.producer, t.epoch = answer.ProducerID, answer.ProducerEpoch
	return true, kerr.ErrorForCode(answer.ErrorCode)
}

// write begins a transaction and writes its records: the first goes to another partition in each transaction. It
// calls stamp, where there is one, with each batch before it is sent.
func (t *transactional) write(transaction int, stamp func(batch []byte)) error {
	var partitions []int32
	for index := range t.job.partitions {
		if t.recordsOf(index) > 0 {
			partitions = append(partitions, int32((t.number+transaction+index)%t.job.partitions))
		}
	}
	if err := t.add(partitions); err != nil {
		return fmt.Errorf("adding partitions: %w", err)
	}
	return t.produce(partitions, stamp)
}

// add adds partitions to the transaction, as often as it takes until the transaction before is completed.
func (t *transactional) add(partitions []int32) error {
	request, answer := kmsg.NewPtrAddPartitionsToTxnRequest(), kmsg.NewPtrAddPartitionsToTxnResponse()
	request.SetVersion(addPartitionsVersion)
	answer.SetVersion(addPartitionsVersion)
	request.TransactionalID, request.ProducerID, request.ProducerEpoch = t.id, t.producer, t.epoch
	topic := kmsg.NewAddPartitionsToTxnRequestTopic()
	topic.Topic, topic.Partitions = t.job.topic, partitions
	request.Topics = append(request.Topics, topic)
	return t.patiently(request, answer, func() int16 {
		for _, row := range answer.Topics[0].Partitions {
			if row.ErrorCode != 0 {
				return row.ErrorCode
			}
		}
		return 0
	})
}

// end commits the transaction.
func (t *transactional) end() error {
	request, answer := kmsg.NewPtrEndTxnRequest(), kmsg.NewPtrEndTxnResponse()
	request.SetVersion(endTxnVersion)
	answer.SetVersion(endTxnVersion)
	request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Commit = t.id, t.producer, t.epoch, true
	if err := t.patiently(request, answer, func() int16 { return answer.ErrorCode }); err != nil {
		return fmt.Errorf("ending a transaction: %w", err)
	}
	return nil
}

// patiently sends a request to the coordinator again, each time after a pause, while it is answered
// CONCURRENT_TRANSACTIONS.
func (t *transactional) patiently(request kmsg.Request, answer kmsg.Response, code func() int16) error {
	for {
		if err := t.crew.send(t.coordinator, request, answer); err != nil {
			return err
		}
		if code() != kerr.ConcurrentTransactions.Code {
			return kerr.ErrorForCode(code())
		}
		t.refused++
		if err := pause(t.crew.ctx, t.job.pause); err != nil {
			return err
		}
	}
}

// produce sends the batches of a transaction, to all leaders at once.
func (t *transactional) produce(partitions []int32, stamp func(batch []byte)) error {
	requests := map[string]*kmsg.ProduceRequest{}
	for index, partition := range partitions {
		batch := slices.Clone(t.batches[t.recordsOf(index)])
		t.stamp(batch, partition, t.recordsOf(index), stamp)
		leader := t.leaders[partition]
		if requests[leader] == nil {
			requests[leader] = produceTo(t.job.topic)
			requests[leader].Acks, requests[leader].TransactionID = -1, kmsg.StringPtr(t.id)
		}
		row := kmsg.NewProduceRequestTopicPartition()
		row.Partition, row.Records = partition, batch
		topic := &requests[leader].Topics[0]
		topic.Partitions = append(topic.Partitions, row)
	}
	for leader, request := range requests {
		if err := t.crew.begin(leader, request); err != nil {
			return err
		}
	}
	for leader := range requests {
		answer := produceAnswer()
		if err := t.crew.lines[leader].receive(answer); err != nil {
			return err
		}
		for _, row := range answer.Topics[0].Partitions {
			if err := kerr.ErrorForCode(row.ErrorCode); err != nil {
				return fmt.Errorf("%s-%d: %w", t.job.topic, row.Partition, err)
			}
		}
	}
	return nil
}

// stamp makes a batch the producer's next one for a partition.
func (t *transactional) stamp(batch []byte, partition int32, records int, more func(batch []byte)) {
	big := binary.BigEndian
	big.PutUint16(batch[attributesAt:], big.Uint16(batch[attributesAt:])|transactionalBit)
	big.PutUint64(batch[producerAt:], uint64(t.producer))
	big.PutUint16(batch[epochAt:], uint16(t.epoch))
	big.PutUint32(batch[sequenceAt:], uint32(t.sequences[partition]))
	t.sequences[partition] += int32(records)
	if more != nil {
		more(batch)
	}
	big.PutUint32(batch[crcFrom-4:], crc32.Checksum(batch[crcFrom:], castagnoli))
}
