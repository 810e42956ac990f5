import type { Chapter } from './statement.js';

const LEGACY = 'Legacy interface: vring implements neither transitional devices nor transitional drivers.';

/** virtio 1.4, 2.7 */
export const split: Chapter = {
  title: 'Split virtqueues',
  sections: [
    {
      number: '2.7.1',
      title: 'Driver Requirements: Virtqueues',
      statements: [
        {
          id: 'split-driver-align',
          binds: 'driver',
          level: 'MUST',
          text: 'Each of the three parts starts at a multiple of its alignment: 16, 2 and 4.',
        },
      ],
    },
    {
      number: '2.7.2',
      title: 'Legacy Interfaces: A Note on Virtqueue Layout',
      statements: [
        {
          id: 'split-driver-legacy-size',
          binds: 'driver',
          level: 'MUST',
          text: 'A transitional driver takes the queue size from the device.',
          notApplicable: LEGACY,
        },
        {
          id: 'split-driver-legacy-bytes',
          binds: 'driver',
          level: 'MUST',
          text: 'A transitional driver allocates as much as the legacy formula gives.',
          notApplicable: LEGACY,
        },
        {
          id: 'split-device-legacy-layout',
          binds: 'device',
          level: 'MUST',
          text: 'Transitional sides find the parts at the legacy places: one block, the used ring on its own page.',
          notApplicable: LEGACY,
        },
      ],
    },
    {
      number: '2.7.3',
      title: 'Legacy Interfaces: A Note on Virtqueue Endianness',
      statements: [
        {
          id: 'split-device-legacy-endian',
          binds: 'device',
          level: 'MUST',
          text: 'Transitional sides use the byte order of the guest.',
          notApplicable: LEGACY,
        },
      ],
    },
    {
      number: '2.7.4.1',
      title: 'Device Requirements: Message Framing',
      statements: [
        {
          id: 'split-device-framing',
          binds: 'device',
          level: 'MUST NOT',
          text: 'Nothing depends on how a message is cut into descriptors.',
        },
      ],
    },
    {
      number: '2.7.4.2',
      title: 'Driver Requirements: Message Framing',
      statements: [
        {
          id: 'split-driver-order',
          binds: 'driver',
          level: 'MUST',
          text: 'In a chain all readable elements come before the first writable one.',
        },
        {
          id: 'split-driver-few-descriptors',
          binds: 'driver',
          level: 'SHOULD NOT',
          text: 'A buffer is not cut into more descriptors than it needs.',
        },
      ],
    },
    {
      number: '2.7.5.1',
      title: 'Device Requirements: The Virtqueue Descriptor Table',
      statements: [
        {
          id: 'split-device-readable',
          binds: 'device',
          level: 'MUST NOT',
          text: 'The bytes of a readable buffer are left as they are.',
        },
        {
          id: 'split-device-writable',
          binds: 'device',
          level: 'SHOULD NOT',
          text: 'The bytes of a writable buffer are not looked at.',
        },
        {
          id: 'split-device-table',
          binds: 'device',
          level: 'MUST NOT',
          text: 'The descriptor table is left as it is.',
        },
      ],
    },
    {
      number: '2.7.5.2',
      title: 'Driver Requirements: The Virtqueue Descriptor Table',
      statements: [
        {
          id: 'split-driver-chain-bytes',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'A chain has no more than 2^32 bytes in all, and so no loop.',
        },
        {
          id: 'split-driver-in-order-next',
          binds: 'driver',
          level: 'MUST',
          text: 'Under IN_ORDER next is the following slot of the table, 0 in the last one.',
        },
      ],
    },
    {
      number: '2.7.5.3.1',
      title: 'Driver Requirements: Indirect Descriptors',
      statements: [
        {
          id: 'split-driver-indirect-negotiated',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'The INDIRECT flag is set only where INDIRECT_DESC was negotiated.',
        },
        {
          id: 'split-driver-indirect-nested',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'No descriptor of an indirect table refers to another table.',
        },
        {
          id: 'split-driver-chain-length',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'No chain is longer than the queue size.',
        },
        {
          id: 'split-driver-indirect-next',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'INDIRECT and NEXT are never set together.',
        },
        {
          id: 'split-driver-in-order-indirect',
          binds: 'driver',
          level: 'MUST',
          text: 'Under IN_ORDER a table is filled in sequence: next is 1, 2, 3 …',
        },
      ],
    },
    {
      number: '2.7.5.3.2',
      title: 'Device Requirements: Indirect Descriptors',
      statements: [
        {
          id: 'split-device-indirect-write',
          binds: 'device',
          level: 'MUST',
          text: 'WRITE means nothing in a descriptor that refers to a table.',
        },
        {
          id: 'split-device-indirect-mixed',
          binds: 'device',
          level: 'MUST',
          text: 'A chain may have any number of direct descriptors before the one that refers to a table.',
        },
      ],
    },
    {
      number: '2.7.6.1',
      title: 'Driver Requirements: The Virtqueue Available Ring',
      statements: [
        {
          id: 'split-driver-avail-idx',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'avail.idx only ever goes forward.',
        },
      ],
    },
    {
      number: '2.7.7.1',
      title: 'Driver Requirements: Used Buffer Notification Suppression',
      statements: [
        {
          id: 'split-driver-avail-flags',
          binds: 'driver',
          level: 'MUST',
          text: 'Without EVENT_IDX avail.flags is 0 or 1.',
        },
        {
          id: 'split-driver-avail-flags-event',
          binds: 'driver',
          level: 'MUST',
          text: 'With EVENT_IDX avail.flags is 0.',
        },
        {
          id: 'split-driver-spurious',
          binds: 'driver',
          level: 'MUST',
          text: 'A notification without a used buffer does no harm.',
        },
      ],
    },
    {
      number: '2.7.7.2',
      title: 'Device Requirements: Used Buffer Notification Suppression',
      statements: [
        {
          id: 'split-device-used-event-ignored',
          binds: 'device',
          level: 'MUST',
          text: 'Without EVENT_IDX used_event means nothing.',
        },
        {
          id: 'split-device-suppressed',
          binds: 'device',
          level: 'SHOULD NOT',
          text: 'Without EVENT_IDX no notification follows a used buffer while avail.flags is 1.',
        },
        {
          id: 'split-device-notifies',
          binds: 'device',
          level: 'MUST',
          text: 'Without EVENT_IDX a notification follows a used buffer while avail.flags is 0.',
        },
        {
          id: 'split-device-flags-ignored',
          binds: 'device',
          level: 'MUST',
          text: 'With EVENT_IDX the low bit of avail.flags means nothing.',
        },
        {
          id: 'split-device-event-notifies',
          binds: 'device',
          level: 'MUST',
          text: 'With EVENT_IDX a notification follows the used buffer whose index is used_event.',
        },
        {
          id: 'split-device-event-suppressed',
          binds: 'device',
          level: 'SHOULD NOT',
          text: 'With EVENT_IDX no notification follows any other used buffer.',
        },
      ],
    },
    {
      number: '2.7.8.2',
      title: 'Device Requirements: The Virtqueue Used Ring',
      statements: [
        {
          id: 'split-device-len-first',
          binds: 'device',
          level: 'MUST',
          text: 'len is in the used entry before used.idx shows the entry.',
        },
        {
          id: 'split-device-len-written',
          binds: 'device',
          level: 'MUST',
          text: 'The first len bytes of the writable part are written before used.idx shows the entry.',
        },
      ],
    },
    {
      number: '2.7.8.3',
      title: 'Driver Requirements: The Virtqueue Used Ring',
      statements: [
        {
          id: 'split-driver-len-beyond',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'Nothing is concluded from writable bytes beyond the first len.',
        },
        {
          id: 'split-driver-len-ignore',
          binds: 'driver',
          level: 'SHOULD',
          text: 'Writable bytes beyond the first len are left alone.',
        },
      ],
    },
    {
      number: '2.7.10.1',
      title: 'Driver Requirements: Available Buffer Notification Suppression',
      statements: [
        {
          id: 'split-driver-used-flags-zero',
          binds: 'driver',
          level: 'MUST',
          text: 'used.flags is 0 when the driver has allocated the used ring.',
        },
        {
          id: 'split-driver-avail-event-ignored',
          binds: 'driver',
          level: 'MUST',
          text: 'Without EVENT_IDX avail_event means nothing.',
        },
        {
          id: 'split-driver-suppressed',
          binds: 'driver',
          level: 'SHOULD NOT',
          text: 'Without EVENT_IDX no notification follows an available buffer while used.flags is 1.',
        },
        {
          id: 'split-driver-notifies',
          binds: 'driver',
          level: 'MUST',
          text: 'Without EVENT_IDX a notification follows an available buffer while used.flags is 0.',
        },
        {
          id: 'split-driver-flags-ignored',
          binds: 'driver',
          level: 'MUST',
          text: 'With EVENT_IDX the low bit of used.flags means nothing.',
        },
        {
          id: 'split-driver-event-notifies',
          binds: 'driver',
          level: 'MUST',
          text: 'With EVENT_IDX a notification follows the available buffer whose index is avail_event.',
        },
        {
          id: 'split-driver-event-suppressed',
          binds: 'driver',
          level: 'SHOULD NOT',
          text: 'With EVENT_IDX no notification follows any other available buffer.',
        },
      ],
    },
    {
      number: '2.7.10.2',
      title: 'Device Requirements: Available Buffer Notification Suppression',
      statements: [
        {
          id: 'split-device-used-flags',
          binds: 'device',
          level: 'MUST',
          text: 'Without EVENT_IDX used.flags is 0 or 1.',
        },
        {
          id: 'split-device-used-flags-event',
          binds: 'device',
          level: 'MUST',
          text: 'With EVENT_IDX used.flags is 0.',
        },
        {
          id: 'split-device-spurious',
          binds: 'device',
          level: 'MUST',
          text: 'A notification without an available buffer does no harm.',
        },
      ],
    },
    {
      number: '2.7.13.3.1',
      title: 'Driver Requirements: Updating idx',
      statements: [
        {
          id: 'split-driver-publish-barrier',
          binds: 'driver',
          level: 'MUST',
          text: 'A barrier stands between descriptors and ring entries and the avail.idx that shows them.',
        },
      ],
    },
    {
      number: '2.7.13.4.1',
      title: 'Driver Requirements: Notifying The Device',
      statements: [
        {
          id: 'split-driver-notify-barrier',
          binds: 'driver',
          level: 'MUST',
          text: 'A barrier stands between the new avail.idx and reading used.flags or avail_event.',
        },
      ],
    },
  ],
};
