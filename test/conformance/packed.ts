import type { Chapter } from './statement.js';

/** virtio 1.4, 2.8 */
export const packed: Chapter = {
  title: 'Packed virtqueues',
  sections: [
    {
      number: '2.8.11',
      title: 'Driver Requirements: Virtqueues',
      statements: [
        {
          id: 'packed-driver-align',
          binds: 'driver',
          level: 'MUST',
          text: 'Each of the three parts starts at a multiple of its alignment: 16, 4 and 4.',
        },
      ],
    },
    {
      number: '2.8.12',
      title: 'Device Requirements: Virtqueues',
      statements: [
        {
          id: 'packed-device-start-order',
          binds: 'device',
          level: 'MUST',
          text: 'Work on buffers begins in the order in which they stand in the ring.',
        },
        {
          id: 'packed-device-complete-order',
          binds: 'device',
          level: 'MUST',
          text: 'Used descriptors come into the ring in the order in which the buffers are done.',
        },
      ],
    },
    {
      number: '2.8.15',
      title: 'Device Requirements: The Virtqueue Descriptor Table',
      statements: [
        {
          id: 'packed-device-readable',
          binds: 'device',
          level: 'MUST NOT',
          text: 'The bytes of a readable buffer are left as they are.',
        },
        {
          id: 'packed-device-writable',
          binds: 'device',
          level: 'SHOULD NOT',
          text: 'The bytes of a writable buffer are not looked at.',
        },
        {
          id: 'packed-device-avail-changed',
          binds: 'device',
          level: 'MUST NOT',
          text: 'No descriptor is used before its AVAIL bit was seen to change, at first from 0.',
        },
        {
          id: 'packed-device-after-used',
          binds: 'device',
          level: 'MUST NOT',
          text: 'From the change of its USED bit on the device leaves a descriptor alone.',
        },
      ],
    },
    {
      number: '2.8.16',
      title: 'Driver Requirements: The Virtqueue Descriptor Table',
      statements: [
        {
          id: 'packed-driver-used-changed',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'No descriptor is written again before a USED bit was seen to change for it.',
        },
        {
          id: 'packed-driver-after-avail',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'From the change of its AVAIL bit on the driver leaves a descriptor alone.',
        },
        {
          id: 'packed-driver-notification',
          binds: 'driver',
          level: 'MUST',
          text: 'A notification names the next descriptor that is not yet available: next_off and next_wrap.',
        },
      ],
    },
    {
      number: '2.8.17',
      title: 'Driver Requirements: Scatter-Gather Support',
      statements: [
        {
          id: 'packed-driver-list-allowed',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'No list of descriptors is longer than the device allows.',
        },
        {
          id: 'packed-driver-list-length',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'No list is longer than the queue size, and so none has a loop.',
        },
        {
          id: 'packed-driver-order',
          binds: 'driver',
          level: 'MUST',
          text: 'In a list all readable elements come before the first writable one.',
        },
        {
          id: 'packed-driver-no-dependence',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'A list that was begun does not need the device to use something before it can be ended.',
        },
        {
          id: 'packed-driver-space',
          binds: 'driver',
          level: 'MUST',
          text: 'There is room for the whole list before its first descriptor becomes available.',
        },
        {
          id: 'packed-driver-first-last',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'The first descriptor of a list becomes available after all others of the list.',
        },
      ],
    },
    {
      number: '2.8.18',
      title: 'Device Requirements: Scatter-Gather Support',
      statements: [
        {
          id: 'packed-device-chain-order',
          binds: 'device',
          level: 'MUST',
          text: 'The descriptors of a list are used in the order in which the driver linked them.',
        },
      ],
    },
    {
      number: '2.8.19',
      title: 'Driver Requirements: Indirect Descriptors',
      statements: [
        {
          id: 'packed-driver-indirect-negotiated',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'The INDIRECT flag is set only where INDIRECT_DESC was negotiated.',
        },
        {
          id: 'packed-driver-indirect-flags',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'Descriptors of a table have no flag but WRITE.',
        },
        {
          id: 'packed-driver-chain-allowed',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'No chain of descriptors is longer than the device allows, in a table either.',
        },
        {
          id: 'packed-driver-indirect-next',
          binds: 'driver',
          level: 'MUST NOT',
          text: 'A descriptor with INDIRECT is never part of a list that NEXT links.',
        },
      ],
    },
    {
      number: '2.8.21.1.1',
      title: 'Driver Requirements: Updating flags',
      statements: [
        {
          id: 'packed-driver-flags-barrier',
          binds: 'driver',
          level: 'MUST',
          text: 'A barrier stands between the descriptors and the flags that make them available.',
        },
      ],
    },
    {
      number: '2.8.21.3.1',
      title: 'Driver Requirements: Sending Available Buffer Notifications',
      statements: [
        {
          id: 'packed-driver-notify-barrier',
          binds: 'driver',
          level: 'MUST',
          text: "A barrier stands between the new flags and reading the device's event suppression structure.",
        },
      ],
    },
  ],
};
