// Allocates by `new` and by a container, whose code is inlined, and prints the policy of each.

#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace app {

double table[1 << 17];

}

static void show(const char *what, const void *block, size_t bytes)
{
	std::ifstream file("/proc/self/numa_maps");
	std::string line, found = "none";
	while (std::getline(file, line)) {
		std::istringstream words(line);
		std::uintptr_t start;
		std::string policy;
		words >> std::hex >> start >> policy;
		if (start <= reinterpret_cast<std::uintptr_t>(block) + bytes / 2)
			found = policy;
	}
	std::cout << what << ' ' << found << std::endl;
}

int main(int count, char **)
{
	size_t many = size_t(1) << (16 + count);
	std::vector<double> named(many); /* named */
	std::vector<double> other(many); /* other */
	std::unique_ptr<double[]> made(new double[many]); /* made */
	show("named", named.data(), many * sizeof(double));
	show("other", other.data(), many * sizeof(double));
	show("made", made.get(), many * sizeof(double));
	show("table", app::table, sizeof app::table);
}
