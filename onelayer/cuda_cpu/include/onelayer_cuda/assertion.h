#pragma once
// Stops the launch, as a failed assert does on a GPU; in host code it ends the process.
extern "C" void onelayer_assertion_failed(const char* condition, int line);
